"""Many nodes that ought to be equal: which is odd, and in which parameter.

`reading` takes result files, `columns` keeps what they say by parameter, `examine` judges one parameter over all nodes,
`comparison` puts it together. `simulated` makes fleets whose odd nodes are known, `engine` measures real ones.
"""
