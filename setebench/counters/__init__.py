"""What counted events mean: roles, the capability of machines that count them, metrics over roles, verdicts stored.

A *role* says what one count stands for, whatever a vendor calls the event. Metrics, verdicts and scenarios refer to
roles; which event of which CPU plays a role is known to the room that touches hardware alone. Nothing here touches
hardware.
"""
