"""Would anything on this machine disturb a measurement? Facts and advice; nothing is changed, nothing is measured here.

A module has the rows of one subject, of what was read (`setebench.host.environment`) and measured (`reports`; or why it
wasn't): what was found, what that means for a timing of tens of cycles, and what to do about it.
"""
