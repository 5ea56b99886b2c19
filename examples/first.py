import mnemesh as mm

graph    = mm.topology.random_geometric(20, radius=0.35, seed=1)           # a connected networkx.Graph on 0..19
interest = mm.interest.dirichlet(20, own=10.0, others=2.0, seed=1)
stream   = mm.streams.teacher(agents=20, key_dim=10, value_dim=10, rounds=2500, correlation=0.75, seed=1)
problem  = mm.Problem(loss="delta", domain=mm.domains.ball(200.0), interest=interest)

trees    = mm.routing.steiner(graph, interest)
step     = mm.steps.inverse_sqrt(0.8)
trace    = mm.simulate(problem, mm.algorithms.dam_togd(trees, step=step), stream)
regret   = mm.regret.static(problem, stream, trace)
print(regret.total[-1] / 2500)                                             # network regret per round at T = 2500

bound    = mm.theory.dam_togd(problem, stream, trees, step=step)           # .printed, .repaired, .sharp, .sharp_sum: network totals over T = 1..rounds
print("never more than", bound.sharp_sum[-1] / 2500)                       # per round, too
print("agent 3 recalls", problem.recall(trace.memories[3], stream.keys[0, 3]).round(2))  # its answer to a cue
