"""Statistical methods that all scenarios share: functions that take NumPy arrays and return plain records.

No module depends on a machine; each cites its method's source. `decide` turns estimates into findings for the report.
"""
