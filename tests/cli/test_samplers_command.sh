# test_samplers_command.sh - kiln samplers: the list, one by name, JSON, a misspelt name. (A plugin's sampler: tests/plugin/test_template.sh.)
. "$KILN_ROOT/tests/cli/head.sh"
cd "$work" || exit 2
"$kiln" samplers >list.txt 2>errors.txt; verdict the_list $?
[ "$(wc -l <list.txt)" -ge 45 ] && [ ! -s errors.txt ]; verdict a_line_for_each $?
grep -qE '^euler +1 +1 +s_churn +s_churn=0 ' list.txt; verdict order_evaluations_and_options $?
grep -qE '^dpmpp_2m_sde_gpu +2 +1 +path \(gpu\) .*solver_type=midpoint' list.txt; verdict where_noise_comes_from $?
grep -qE '^lcm +- ' list.txt; verdict no_order_where_there_is_none $?
"$kiln" samplers dpm_adaptive >one.txt && grep -q 'accept_safety .*default 0.81' one.txt && grep -q '2206.00927' one.txt; verdict options_with_help_and_source $?
"$kiln" samplers dpm_2 euler_cfg_pp >two.txt && grep -q 'one step more' two.txt && grep -q 'at cfg 1 as well' two.txt; verdict what_is_special $?
"$kiln" samplers --json >list.json && grep -c '"name": "uni_pc_bh2"' list.json >/dev/null && grep -q '"default": "phi_2"' list.json; verdict json $?
if command -v python3 >/dev/null; then
    python3 -c 'import json; d = json.load(open("list.json")); assert len(d) >= 44 and d[0]["options"][0]["name"] == "s_churn" and [x["order"] for x in d if x["name"] == "lcm"] == [None]'; verdict json_is_read_by_others $?
else
    echo "skip json_is_read_by_others: no python3"
fi
"$kiln" samplers eulr 2>errors.txt; [ $? -eq 2 ] && grep -q "did you mean 'euler'" errors.txt; verdict a_misspelt_name $?
"$kiln" samplers --help | grep -q 'kiln samplers dpmpp_2m_sde dpm_adaptive'; verdict help_has_examples $?
"$kiln" help | grep -q samplers; verdict it_is_in_the_help $?
exit $status
