nodes_sampler := sampling
