libs_sampler :=
