"""Orders with their payments within an hour; an order without a payment is written alone."""

from __future__ import annotations

from headwater import JoinSide, LineageJob, WatermarkJoin

ORDERS = JoinSide(
    "web-orders",
    fields={"order_id": "string", "ordered_at": "timestamp", "amount": "double"},
    key="order_id",
    time="ordered_at",
    watermark="10 minutes",
)
PAYMENTS = JoinSide(
    "web-payments",
    fields={"order_id": "string", "paid_at": "timestamp", "method": "string"},
    key="order_id",
    time="paid_at",
    watermark="5 minutes",
)


if __name__ == "__main__":
    with LineageJob("paid_orders", version="1.0.0") as job:
        join = WatermarkJoin(
            job, ORDERS, PAYMENTS, "paid-orders", within=("0 seconds", "1 hour"), how="left_outer"
        )
        print(join.explain())
        join.write(trigger={"availableNow": True})
