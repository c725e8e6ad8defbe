"""Alerts: rules in YAML, conditions in CEL, their evaluation, and notifications.

scheduler    when to evaluate, and on which service
evaluation   conditions -> transitions (rules, conditions, fields, state, rule_status)
incidents    transitions -> incidents and queued messages
outbox       queued messages -> channels (sending, worker, egress)
"""
