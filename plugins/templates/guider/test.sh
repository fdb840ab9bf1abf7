# test.sh - make test: the contract, and the picture that kiln's own guider of the same formula makes.
. ./pixels.sh
"$kiln" plugin check .
"$kiln" run my-plugin.yaml --plugins . --no-cache --quiet --out "$work" >"$work/said.txt"
same it_guides_as_CFGGuider_does "$work/got_00001_.png" "$work/wanted_00001_.png"
drawn there_is_a_picture "$work/got_00001_.png"
