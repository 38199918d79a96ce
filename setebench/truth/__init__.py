"""A twin of a measured machine, and what it is worth: `twin` makes a machine file of a result, `verify` holds machine
and twin against each other on probes that nobody chose."""
