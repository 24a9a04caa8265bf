"""Run chains: `sample`, `resume` and `join`.

- `sample`: run moves on a posterior and return the draws
- `resume`: continue a run from its store
- `join`: combine the results of runs that divided the chains among them
- `arguments`: checks of the arguments of `sample` and `resume`
- `start`: the start of a run: its move, its engine, its sink
- `reference_move`: fit a reference Gaussian, and the move that uses it
- `choose_reference_move`: choose the kind of this move, by a pilot run
- `kick_pilot`: the pilot run that chooses the number of kicks
- `mode`: a state near the mode, where trajectories around the prior begin
- `automatic_move`: choose the move of a run without `move` and `reference`
- `initial_states`: initial states of the chains
- `likelihood_checks`: mistakes that raise no error and give wrong answers
- `drive`: advance the chains until the run ends
- `report`: attributes of the result, and warnings at the end
- `sinks`: collect the rows of a run, and keep draws in memory
- `keep`: select what is stored of each state
- `traces`: traces of a few quantities, and their diagnostics
- `measures`: effective sample size and R-hat of all quantities, and their limits
- `rank_diagnostics`: effective sample sizes and R-hat of many quantities in parallel
- `until`: stopping rules
- `automatic_length`: the length of a run without `draws` and `until`
- `advice`: advice for runs that have not converged
- `forecast`: forecast of the time of a slow run
- `progress`: the progress display
- `interrupt`: Ctrl-C
- `result`: the DataTree
"""

from ellipslice.sampling.join import join
from ellipslice.sampling.resume import resume
from ellipslice.sampling.sample import sample
from ellipslice.sampling.until import Until

__all__ = ["Until", "join", "resume", "sample"]
