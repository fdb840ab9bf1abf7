# test.sh - make test: the contract, and what another sampler draws. Of the same method it is the same but for rounding, which is far below 0.001
# of its size in f32. Another method is held against one that is known to be right, with many steps and a wider bound (--set steps=400, 0.02):
# both come near one picture, Euler's like 1 / steps.
. ./pixels.sh
"$kiln" plugin check .
"$kiln" run my-plugin.yaml --plugins . --no-cache --precision f32 --quiet --out "$work" >"$work/said.txt"
drawn there_is_a_picture "$work/picture_00001_.png"
near it_draws_what_euler_draws "$work/got_00001_.latent" "$work/wanted_00001_.latent" 0.001
