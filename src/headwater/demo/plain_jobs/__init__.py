"""Jobs that know nothing of Headwater; the demo `unchanged` submits them to Spark."""
