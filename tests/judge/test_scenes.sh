# test_scenes.sh - scenes that nothing was trained on: drawn along their edges by the ControlNet and the Control-LoRA that ship, and seen by the IP-Adapter
# that ships. measure-scenes.sh has the whole hundred.
. "$KILN_ROOT/tests/cli/head.sh"
export XDG_CACHE_HOME="$work/cache"
measure() { bash tests/judge/measure-scenes.sh "$@" >"$work/log" 2>&1; }

measure controlnet "$work/edges" 12
mean=$(sed -n 's/.*mean overlap \([0-9.]*\),.*/\1/p' "$work/log"); echo "# along edges: ${mean:-none}"
awk -v m="${mean:-0}" 'BEGIN { exit !(m >= 0.85) }'; verdict edges_are_followed $?
least=$(sed -n 's/.*least \([0-9.]*\),.*/\1/p' "$work/log"); echo "# the one followed least: ${least:-none}"
awk -v m="${least:-0}" 'BEGIN { exit !(m >= 0.8) }'; verdict each_hint_is_followed $?
measure controlnet "$work/without" 12 --set strength=0
loose=$(sed -n 's/.*mean overlap \([0-9.]*\),.*/\1/p' "$work/log"); echo "# without them: ${loose:-none}"
awk -v m="${loose:-1}" 'BEGIN { exit !(m <= 0.7) }'; verdict it_is_the_edges_that_do_it $?
# a cyan triangle on a grey as bright as it: the workflow's thresholds of Canny find its edges, those for photographs find none
along() { # FOLDER [OPTION...]: how much what is drawn along the edges of scene 50 overlaps with it
    local out="$work/$1"; shift
    "$kiln" run workflows/controlnet.yaml --set "image=$PWD/tests/judge/scenes/050.png" --set 'prompt=a large cyan triangle on a gray background' --quiet --out "$out" "$@" >/dev/null &&
        "$KILN_BUILD/tests/judge/judge" --overlap tests/judge/scenes/050.png "$out"/controlnet_00001_.png
}
weak=$(along weak) strong=$(along strong --set low_threshold=0.1 --set high_threshold=0.2); echo "# a thing as bright as its ground: ${weak:-none}, thresholds for photographs: ${strong:-none}"
awk -v m="${weak:-0}" -v n="${strong:-1}" 'BEGIN { exit !(m >= 0.85 && n <= 0.7) }'; verdict weak_edges_are_in_the_hint $?
measure sdxl-controlnet "$work/xl" 12
mean=$(sed -n 's/.*mean overlap \([0-9.]*\),.*/\1/p' "$work/log"); echo "# along edges, a Control-LoRA: ${mean:-none}"
awk -v m="${mean:-0}" 'BEGIN { exit !(m >= 0.8) }'; verdict edges_are_followed_by_a_control_lora $?
measure ip-adapter "$work/seen" 12
right=$(sed -n 's/^\([0-9]*\) of 12 right.*/\1/p' "$work/log"); echo "# seen: ${right:-none} of 12"
[ "${right:-0}" -ge 5 ]; verdict pictures_are_seen $?
measure ip-adapter "$work/unseen" 12 --set weight=0
right=$(sed -n 's/^\([0-9]*\) of 12 right.*/\1/p' "$work/log"); echo "# not seen: ${right:-none} of 12"
[ "${right:-12}" -le 1 ]; verdict it_is_the_adapter_that_does_it $?
mkdir "$work/kept"; : >"$work/kept/file"
measure controlnet "$work/kept" 1; [ $? -eq 2 ] && [ -e "$work/kept/file" ]; verdict a_folder_in_use_is_left_alone $?
exit $status
