"""Alerts: rules in YAML, conditions in CEL, their state, and messages through a guarded door.

Nothing here knows the catalog's database or its routes; `catalog` asks, stores and keeps time.
"""
