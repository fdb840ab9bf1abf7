libs_flow :=
