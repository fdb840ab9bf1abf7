# test.sh - make test: the contract, and the picture that another sampler of the same method draws. A method of your own is
# held against one that is known to be right, with so many steps that both have arrived.
. ./pixels.sh
"$kiln" plugin check .
"$kiln" run my-plugin.yaml --plugins . --no-cache --quiet --out "$work" >"$work/said.txt"
same it_draws_what_euler_draws "$work/got_00001_.png" "$work/wanted_00001_.png"
