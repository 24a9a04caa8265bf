"""Leave-one-out and leave-group-out cross-validation of a fit, without refits where that is reliable.

- `draws`: the draws of a fit that are used, and the reference Gaussian of the linear predictor of each
- `lines`: p(y_i | other responses) for one draw, with its linear predictor integrated out
- `groups`: p(responses of a group | other responses) for one draw, by importance sampling
- `cases`: rows or groups that are left out, and the terms of one draw for each
- `smoothing`: Pareto-smoothed importance sampling over draws
- `loo`: `LeaveOneOut`, the result, and how it is computed
- `refit`: fits without some responses
- `compare`: the difference between models, with its standard error
"""
