# test_round_trip.sh - every workflow of workflows/ goes kiln's form -> API form -> a file as ComfyUI's editor saves it -> kiln's form -> API form, and stays
# what it is: the same keys at every stop, and at the last the same bytes of pictures. The editor's file is written in a way of each kind (save_as_editor.py).
. "$KILN_ROOT/tests/cli/head.sh"
command -v python3 >/dev/null || { echo "skip round_trip: no python3"; exit 0; }
here="$PWD/tests/workflow"
from=(--models "$PWD/workflows/models" --input "$PWD/workflows")
"$kiln" nodes --json >"$work/nodes.json" || exit 2
# Two nodes that write are two, though they write the same: their keys are left out.
cat >"$work/keys.py" <<'P'
import json, sys
writes = {row["type"] for row in json.load(open(sys.argv[1])) if row["output_node"]}
print(*sorted(n["key"] for n in json.load(sys.stdin)["nodes"] if n["type"] not in writes), sep="\n")
P
keys() { "$kiln" run "$1" "${from[@]}" --explain --json 2>"$work/log" | python3 "$work/keys.py" "$work/nodes.json" 2>/dev/null; }
pictures() { # FOLDER: the pixels of all, in no order
    local p; for p in "$1"/*.png; do pixels "$p"; done | sort
}
to() { "$kiln" convert "$1" -o "$2" 2>>"$work/log"; }

ways=(plain reroutes setget subgraph nested) n=0 files=(workflows/*.yaml) least=20
# A sanitizer's build is ten times as slow: one workflow for each way.
case $KILN_BUILD in *-address | *-undefined | *-thread) files=(workflows/{txt2img,batch,lora,inpaint,several}.yaml) least=5 ;; esac
# Four steps are drawn of twenty: the same nodes and wires, whose pictures come out as well.
mkdir -p "$work/short/parts"
for file in workflows/*.yaml workflows/parts/*.yaml; do
    sed -E 's/(steps: (\{default: )?)20\b/\14/; s/(handover: \{default: )16/\13/' "$file" >"$work/short/${file#workflows/}"
done
check steps_are_few [ "$(cat "$work"/short/*.yaml | grep -cE 'steps: (\{default: )?4\b')" -ge 20 -a "$(cat "$work"/short/*.yaml | grep -cE 'steps: (\{default: )?20\b')" = 0 ]
for file in "${files[@]}"; do
    file="$work/short/${file#workflows/}"
    name=$(basename "$file" .yaml) at="$work/$(basename "$file" .yaml)" wrong=""
    # Three wait for a picture of their user's.
    from=("${from[@]:0:4}"); case $name in img2img | inpaint | outpaint) from+=(--set image=pictures/shapes.png) ;; esac
    keys "$file" >"$at.keys"
    [ -s "$at.keys" ] || { bad "keys_of_$name" "$(tail -n 2 "$work/log")"; continue; }
    to "$file" "$at.api.json"
    for way in "${ways[n % 5]}" "${ways[(n + 2) % 5]}"; do # two of the five; each way meets ten workflows
        python3 "$here/save_as_editor.py" "$at.api.json" "$work/nodes.json" "$way" >"$at.$way.json" 2>>"$work/log"
        to "$at.$way.json" "$at.$way.yaml" && to "$at.$way.yaml" "$at.$way.api.json"
        cmp -s "$at.keys" <(keys "$at.$way.api.json") || wrong+=" $way"
    done
    [ -z "$wrong" ]; verdict "same_keys_$name$wrong" $?
    way=${ways[n++ % 5]}
    # What was drawn once is kept: the converted files find it only if they are the same workflow, else they draw it themselves.
    "$kiln" run "$file" "${from[@]}" -q --cache "$work/kept" --out "$at.drawn" >"$work/stdout" 2>"$work/log" &&
        "$kiln" run "$at.$way.json" "${from[@]}" -q --cache "$work/kept" --out "$at.saved" >"$work/stdout" 2>"$work/log" &&
        "$kiln" run "$at.$way.api.json" "${from[@]}" -q --cache "$work/kept" --out "$at.back" >"$work/stdout" 2>"$work/log"
    verdict "draws_${name}_$way" $?
    # What a picture carries, taken out as kiln's own form; nodes on which it does not depend are not in it.
    picture=$(find "$at.drawn" -name '*.png' | sort | head -n 1)
    if [ -n "$picture" ] && to "$picture" "$at.taken.yaml"; then
        keys "$at.taken.yaml" >"$at.taken.keys"
        [ -s "$at.taken.keys" ] && [ -z "$(comm -23 "$at.taken.keys" "$at.keys")" ]; verdict "taken_out_of_its_picture_$name" $?
    fi
    same "same_pictures_$name" "$(pictures "$at.saved"; pictures "$at.back")" "$(pictures "$at.drawn"; pictures "$at.drawn")"
done
check there_were_workflows [ "$n" -ge $least ]
exit "$status"
