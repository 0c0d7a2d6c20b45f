"""`mongofault watch`: a cluster of somebody else's, looked at while it works. Reads alone, and little of it.

Whom to ask (`seats`), what (`asking`), how often (`looking`); what the answers mean (`reading`, `streams`, `writes`),
when that is an alarm (`judging`) and what to do then (`advice`); to whom it is told (`telling`, `metrics`).
"""
