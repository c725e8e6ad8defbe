"""What the service does by itself, beside answering: figures by a timer, alerts as events arrive,
and the messages of alerts."""
