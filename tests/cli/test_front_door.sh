# test_front_door.sh - what a script leans on: bare names, pipes, patterns of files, names of results, random seeds, lists of what there is.
. "$KILN_ROOT/tests/cli/head.sh"
cat >"$work/flow.yaml" <<'Y'
params: {width: {default: 16, help: pixels across}, prefix: k}
nodes:
  empty: {class_type: EmptyImage, inputs: {width: "${width}", height: 16}}
  save: {class_type: SaveImage, inputs: {images: [empty, 0], filename_prefix: "${prefix}"}}
Y
cat >"$work/two.json" <<'J'
{"1": {"class_type": "EmptyImage", "inputs": {"width": 16, "height": 24, "color": 255}, "_meta": {"title": "Left"}},
 "2": {"class_type": "EmptyImage", "inputs": {"width": 16, "height": 16}, "_meta": {"title": "Right"}},
 "3": {"class_type": "SaveImage", "inputs": {"images": ["1", 0], "filename_prefix": "a"}},
 "4": {"class_type": "SaveImage", "inputs": {"images": ["2", 0], "filename_prefix": "b"}}}
J
cat >"$work/load.yaml" <<'Y'
params: {image: default.png}
nodes:
  load: {class_type: LoadImage, inputs: {image: "${image}"}}
  save: {class_type: SaveImage, inputs: {images: [load, 0], filename_prefix: "got_${image.stem}"}}
Y
cat >"$work/seed.yaml" <<'Y'
params: {seed: random}
nodes:
  model: {class_type: CheckpointLoaderSimple, inputs: {ckpt_name: shapes-sd1}}
  text: {class_type: CLIPTextEncode, inputs: {clip: [model, CLIP], text: a circle}}
  empty: {class_type: EmptyLatentImage, inputs: {width: 64, height: 64}}
  sampler: {class_type: KSampler, inputs: {model: [model, 0], positive: [text, 0], negative: [text, 0], latent_image: [empty, 0], seed: "${seed}", steps: 1, cfg: 1.0, sampler_name: euler, scheduler: normal}}
  decode: {class_type: VAEDecode, inputs: {samples: [sampler, 0], vae: [model, VAE]}}
  save: {class_type: SaveImage, inputs: {images: [decode, 0], filename_prefix: "%sampler.seed%_%model.ckpt_name.stem%"}}
Y
cd "$work" || exit 2
flow() { "$kiln" run flow.yaml --no-cache -q --out out "$@"; }

# ---- an input by its name alone
expect bare_name 0 "" flow --set height=32
check bare_name_is_used grep -qa '"height": 32' out/k_00001_.png
expect bare_name_of_a_picture 0 "" "$kiln" run out/k_00001_.png --no-cache -q --out out --set height=40
expect bare_name_of_an_input_that_is_not_written 0 "" "$kiln" check flow.yaml --set color=255
expect bare_name_written_once 0 "" "$kiln" check two.json --set color=7
expect bare_name_of_several 2 '2 nodes have an input of that name: 1.height "Left", 2.height "Right"; name one of them' "$kiln" check two.json --set height=8
expect bare_name_of_none 2 "--set hight: no parameter or input is called that; did you mean 'height'?" "$kiln" check flow.yaml --set hight=8
expect one_input_by_two_names 2 "--set empty.height and height are one input; which value?" "$kiln" check flow.yaml --set empty.height=8 --set height=9
expect an_axis_by_a_bare_name 0 "2 rows" "$kiln" run flow.yaml --no-cache --over height=16,24 --dry-run

# ---- pipes
expect workflow_from_standard_input 0 "" bash -c "'$kiln' run - --no-cache -q --out out --set prefix=piped <flow.yaml"
check it_was_written [ -s out/piped_00001_.png ]
expect workflow_from_a_substitution 0 "4 nodes" bash -c "'$kiln' check <(sed 's/^nodes/x-a: 1\nnodes/; s/  save: /  s2: {class_type: SaveImage, inputs: {images: [empty, 0]}}\n  e2: {class_type: SaveImage, inputs: {images: [empty, 0]}}\n  save: /' flow.yaml)"
expect workflow_from_dev_stdin 0 "2 nodes" bash -c "cat flow.yaml | '$kiln' check /dev/stdin"
expect rows_from_a_substitution 0 "2 rows" bash -c "'$kiln' run flow.yaml --no-cache --dry-run --over-file <(printf 'width\n16\n24\n')"
expect lines_from_standard_input 0 "3 rows" bash -c "printf '16\n24\n32\n' | '$kiln' run flow.yaml --no-cache --dry-run --over width=@-"
expect nothing_on_standard_input 2 "the file is empty" bash -c "'$kiln' check - </dev/null"
expect standard_input_twice 2 "standard input cannot be the workflow and the rows" bash -c "'$kiln' run - --over-file - <flow.yaml"
expect an_endless_pipe_ends 2 "more bytes than the limit" bash -c "'$kiln' check <(cat /dev/zero)"

expect a_picture_from_a_pipe 0 "" bash -c "cat out/k_00001_.png | '$kiln' run - --no-cache -q --out out --set height=24"
expect a_picture_from_a_substitution 0 "nodes, no faults" bash -c "'$kiln' check <(cat out/k_00001_.png)"
expect a_picture_from_a_pipe_as_yaml 0 "params:" bash -c "cat out/k_00001_.png | '$kiln' convert -"
expect a_cut_picture_from_a_pipe 2 "-: " bash -c "head -c 60 out/k_00001_.png | '$kiln' check -"
expect a_file_of_a_pipe_is_said 2 "is a pipe, and the file is read more than once; write it to a file first" bash -c "'$kiln' run load.yaml --no-cache -q --set image=<(cat out/k_00001_.png)"
expect a_file_as_standard_input 0 "" bash -c "'$kiln' run load.yaml --no-cache -q --out stdin --set image=/dev/stdin <out/k_00001_.png"
expect rows_and_rows_from_standard_input 2 "standard input can be read once; give the others of 2 as files" bash -c "'$kiln' run flow.yaml --over height=@- --over-file - <<<16"
expect a_configuration_from_a_substitution 2 "/dev/fd/" bash -c "KILN_CONFIG=<(echo 'nonsense: 1') '$kiln' check flow.yaml"

# ---- patterns of files, and paths of the command line
mkdir -p in/deep other; for n in a b; do cp out/k_00001_.png in/$n.png; done
expect pattern 0 "2 rows: 2 done" "$kiln" run load.yaml --no-cache --out got --over 'image=in/*.png'
check stems_are_names [ -s got/got_a_00001_.png ] && check of_both [ -s got/got_b_00001_.png ]
expect pattern_of_nothing 2 "no file here is called 'in/*.jpg'" "$kiln" run load.yaml --over 'image=in/*.jpg' --dry-run
expect a_star_in_a_text 0 "1 row: " "$kiln" run flow.yaml --dry-run --no-cache --over 'prefix="a*.b"'
mv load.yaml other/
expect a_path_of_the_current_folder 0 "" "$kiln" run other/load.yaml --no-cache -q --out got --set image=in/a.png
expect above_the_current_folder 0 "" bash -c "cd in && '$kiln' check ../other/load.yaml --set image=../in/a.png"
expect not_a_default_of_the_file 2 "no file 'default.png' for input" "$kiln" check other/load.yaml
expect the_stem_of_what_a_picture_carries 0 "" "$kiln" run got/got_a_00001_.png --input . --no-cache -q --out again --set image=in/b.png
check is_made_anew [ -s again/got_b_00001_.png ]

# ---- names of results
one() { "$kiln" run flow.yaml --no-cache -q "$@"; }
expect one_file 0 "new/one.png" one -o new/one.png
expect one_file_again 0 "new/one.png" one -o new/one.png --set width=40
check takes_its_place grep -qa '"width": 40' new/one.png && same and_nothing_else "$(find new | sort | tr '\n' ' ')" "new new/one.png "
expect one_file_skipped 0 "new/one.png is there; nothing was run" "$kiln" run flow.yaml -o new/one.png --skip-existing
expect one_file_without_an_ending 2 "it is a file's name with its ending" one -o new/one
expect one_file_that_is_a_folder 2 "this is a folder" one -o new
expect one_file_of_another_kind 2 "kiln writes no .tiff files" one -o new/one.tiff
expect one_file_that_its_node_does_not_write 2 "its name ends in .latent, and this node writes .png, .jpg and .webp files" one -o new/one.latent
check that_is_said_before_anything_runs bash -c '! grep -q "^\[1/" "$1/log"' _ "$work"
expect one_file_of_two 2 "several nodes write results" "$kiln" run two.json --no-cache -q -o both.png
expect one_file_of_a_sweep 2 "-o is one file" one -o x.png --over width=16,24
expect one_file_and_a_folder 2 "which?" one -o x.png --out out
expect tokens 0 "" flow --set 'prefix=%date:yyyy%/%EmptyImage.height%x%empty.width%'
check tokens_are_values [ -s "out/$(date +%Y)/16x16_00001_.png" ]
expect token_of_no_node 2 "%emty.width%: no node is called 'emty'; did you mean 'empty'?" "$kiln" check flow.yaml --set 'prefix=%emty.width%'
expect token_of_no_input 2 "has no value 'widht'; did you mean 'width'?" "$kiln" check flow.yaml --set 'prefix=%empty.widht%'
expect token_of_two 2 "several nodes are called 'EmptyImage'" "$kiln" check two.json --set '3.filename_prefix=%EmptyImage.width%'
expect token_unknown 2 "'%sede%' is none of %width%" "$kiln" check flow.yaml --set 'prefix=%sede%'
expect no_token 0 "" "$kiln" check flow.yaml --set 'prefix=100%_and_50%'
expect skip 0 "2 done; " "$kiln" run flow.yaml --no-cache --out skip --set prefix=w%empty.width% --over width=16,24
rm skip/manifest.jsonl skip/w24_00001_.png
expect skip_what_is_there 0 "1 done, 1 done before" "$kiln" run flow.yaml --no-cache --out skip --set prefix=w%empty.width% --over width=16,24 --skip-existing
expect skip_in_folders_of_names 0 "2 done; " "$kiln" run flow.yaml --no-cache --out 'sk[i]p' --set 'prefix=%year%/w%empty.width%' --over width=16,24
rm -f sk*/manifest.jsonl "sk[i]p/$(date +%Y)/w16_00001_.png"
expect skip_what_is_in_them 0 "1 done, 1 done before" "$kiln" run flow.yaml --no-cache --out 'sk[i]p' --set 'prefix=%year%/w%empty.width%' --over width=16,24 --skip-existing
touch skip/w1_00001_.png skip/w160_00001_.png skip/w16_x_.png && rm -f skip/w16_00001_.png
expect skip_by_whole_names 0 "1 done, 1 done before" "$kiln" run flow.yaml --no-cache --out skip --set prefix=w%empty.width% --over width=16,24 --skip-existing
expect skip_without_names 2 "several rows write files of the same name" "$kiln" run flow.yaml --no-cache --out skip --over width=16,24 --skip-existing
expect skip_a_single_run 0 "skip/w16_00001_.png is there; nothing was run" "$kiln" run flow.yaml --no-cache --out skip --set prefix=w16 --skip-existing

# ---- random seeds
expect random_seed 0 "" "$kiln" run seed.yaml --no-cache -q --out random
expect another 0 "" "$kiln" run seed.yaml --no-cache -q --out random --set sampler.seed=random
same two_seeds "$(find random -name '[0-9]*_shapes-sd1_00001_.png' | wc -l)" 2
first=$(find random -name '*.png' | head -n 1); drawn=$(basename "$first" | cut -d_ -f1)
check the_seed_is_in_the_picture grep -qa "\"seed\": $drawn" "$first"
expect and_gives_it_again 0 "" "$kiln" run "$first" --no-cache -q -o again.png
same same_picture "$(pixels again.png)" "$(pixels "$first")"
expect random_is_for_seeds 2 "'random' is not a whole number" "$kiln" check seed.yaml --set steps=random

# ---- what there is
expect_in=stdout
expect params 0 "width=16" "$kiln" params flow.yaml
check params_help grep -qF "pixels across" stdout && check params_range grep -qF "takes a whole number from" stdout
expect params_all 0 "empty.height=16" "$kiln" params flow.yaml --all
expect params_of_an_export 0 "1.color=255" "$kiln" params two.json
expect params_json 0 "" "$kiln" params flow.yaml --all --json
check params_is_json python3 -c 'import json; p=json.load(open("stdout")); assert p["params"][0]["name"]=="width" and p["inputs"][0]["name"]=="empty.height", p'
mkdir -p store/cks/sub; ln -s "$KILN_ROOT/workflows/models/shapes-sd1" store/cks/mine; ln -s "$KILN_ROOT/workflows/models/loras/shapes-turbo.safetensors" store/cks/sub/turbo.safetensors
printf 'comfyui:\n    base_path: store\n    is_default: true\n    checkpoints: cks/\n    loras: |\n        nowhere/\n        cks/sub\n' >extra.yaml
expect models 0 "sd-unet, clip, sd1-vae" "$kiln" models --models extra.yaml --kind checkpoints
check models_name grep -qE "^checkpoints +mine .* sd-unet, clip, sd1-vae +([^ ]*/)?store/cks/mine$" stdout
mkdir -p first/checkpoints; ln -s "$KILN_ROOT/workflows/models/shapes-sd1" first/checkpoints/mine
expect models_hidden 0 "store/cks/mine (not taken: the one above is found first)" "$kiln" models --models first:extra.yaml --kind checkpoints
check models_first grep -qE "^checkpoints +mine .* +([^ ]*/)?first/checkpoints/mine$" stdout
expect models_hidden_json 0 "" "$kiln" models --models first:extra.yaml --kind checkpoints --json
check models_says_which_is_hidden python3 -c 'import json; m=[x for x in json.load(open("stdout"))["models"] if x["name"]=="mine"]; assert [x.get("hidden", False) for x in m]==[False, True] and "first" in m[0]["path"], m'
rm -r first
expect models_json 0 "" "$kiln" models --models extra.yaml --kind loras --json --hash
check models_is_json python3 -c 'import json; m=json.load(open("stdout"))["models"]; one=[x for x in m if x["name"]=="turbo.safetensors"][0]; assert one["family"]=="lora" and one["bytes"]>1000 and len(one["hash"])==32, one'
expect_in="log stdout"
expect extra_paths 0 "no faults" "$kiln" check seed.yaml --models extra.yaml --set ckpt_name=mine
expect extra_paths_near 2 "no file 'mnie' for checkpoints; did you mean 'mine'? (a file goes into ./store/cks)" "$kiln" check seed.yaml --models extra.yaml --set ckpt_name=mnie
expect missing_model 2 "put it into ./store/cks, or name its folder with --models" "$kiln" check seed.yaml --models extra.yaml --set ckpt_name=zzzzzzzzzzzzzzzz
expect missing_model_lists 2 "there are '" "$kiln" check seed.yaml --set ckpt_name=zzzzzzzzzzzzzzzz
printf 'comfyui:\n    base_path: gone\n    checkpoints: a\n' >wrong.yaml
expect extra_paths_gone 2 "wrong.yaml:2:16: base_path: there is no such folder" "$kiln" check seed.yaml --models wrong.yaml
printf -- '- a\n' >wrong.yaml
expect extra_paths_no_map 2 "wrong.yaml:1:1: it is a map of sections" "$kiln" check seed.yaml --models wrong.yaml
printf 'a: {base_path: ., loras: [x]}\n' >wrong.yaml
expect extra_paths_no_text 2 "wrong.yaml:1:26: folders are a text, one a line" "$kiln" check seed.yaml --models wrong.yaml

# ---- JSON
expect check_many 2 "flow.yaml: 2 nodes, no faults" "$kiln" check flow.yaml gone.yaml two.json
check check_goes_on grep -qF "two.json: 4 nodes, no faults" stdout
expect check_json 2 "" "$kiln" check flow.yaml gone.yaml --json --set empty.hight=1
check check_is_json python3 -c '
import json
a, b = [json.loads(l) for l in open("stdout")]
f = a["faults"][0]
assert not a["sound"] and (f["file"], f["line"], f["column"]) == ("flow.yaml", 3, 3) and "hight" in f["text"], a
assert not b["sound"] and "cannot open" in b["faults"][0]["text"], b'
check silent_otherwise [ ! -s log ]
expect dry_run_json 0 "" "$kiln" run seed.yaml --dry-run --json --no-cache
check dry_run_is_json python3 -c 'import json; d=json.load(open("stdout")); assert d["total"]["run"] == 6 == len(d["nodes"]) and d["nodes"][-1]["node"] == "save", d'
expect explain_json 0 "" "$kiln" run seed.yaml --explain --json
check explain_is_json python3 -c 'import json; d=json.load(open("stdout")); assert {n["node"]: n for n in d["nodes"]}["sampler"]["flops"] > 1e6 and d["memory"]["least"] > 0, d'
expect sweep_json 0 "" "$kiln" run flow.yaml --dry-run --json --no-cache --over width=16,24
check sweep_is_json python3 -c 'import json; d=json.load(open("stdout")); assert [r["label"] for r in d["rows"]] == ["width=16", "width=24"], d'
expect json_of_a_run 2 "--json belongs to --explain and --dry-run" flow --json
expect faults_are_events 2 "" flow --set empty.hight=1 --events events
check a_fault_event python3 -c 'import json; e=json.loads(open("events").readline()); assert e["event"] == "fault" and e["line"] == 3, e'
expect row_done 0 "" flow --over width=16,24 --events events
check row_done_has_files python3 -c 'import json; e=[json.loads(l) for l in open("events")]; f=[x["files"] for x in e if x["event"]=="row_done"]; assert len(f)==2 and all(len(x)==1 for x in f), f'

# ---- the terminal: narrow, dumb, without colour
terminal() { # COLUMNS ENV... -- what `kiln` prints on a terminal so wide
    local columns=$1; shift
    env "$@" script -qec "stty cols $columns; '$kiln' run seed.yaml --no-cache --out term --set seed=1 --set steps=60" /dev/null 2>&1 | tr '\r' '\n'
}
if command -v script >/dev/null; then
    terminal 40 TERM=xterm >shown
    check narrow_pace grep -qE "[0-9.]+ (it/s|s/it), [0-9]+ s left" shown
    same narrow_fits "$(sed 's/\x1b\[K//g' shown | grep -E 'it/s|s/it' | awk 'length > 39' | wc -l)" 0
    terminal 80 TERM=dumb >shown
    check dumb_is_plain bash -c '! grep -q $'"'"'\x1b'"'"' shown'
    fault() { env "$@" script -qec "'$kiln' check flow.yaml --set empty.hight=1" /dev/null; }
    check colour bash -c 'grep -q $'"'"'\x1b\[31merror:'"'"' <<<"$1"' _ "$(fault TERM=xterm)"
    check no_colour bash -c '! grep -q $'"'"'\x1b'"'"' <<<"$1"' _ "$(fault TERM=xterm NO_COLOR=1)"
else
    echo "SKIP the terminal: there is no script(1)"
fi
exit "$status"
