# test.sh - make test: the contract, and a picture whose pixels are known.
. ./pixels.sh
"$kiln" plugin check .
"$kiln" run my-plugin.yaml --plugins . --no-cache --quiet --out "$work" >"$work/said.txt"
same twice_64_is_128 "$work/got_00001_.png" "$work/wanted_00001_.png"
