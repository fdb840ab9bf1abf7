# test_check_sampling.sh - `kiln check-plugin` names each of 52 ways in which samplers and schedules break their contract, and finds nothing in those
# that do not; levels, JSON, and what it says when it could try nothing.
status=0
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
umask 022
export XDG_CACHE_HOME="$work/cache" TMPDIR="$work"
unset KILN_PLUGIN_PATH
kiln="$KILN_ROOT/$KILN_BUILD/kiln" hostile="$KILN_ROOT/tests/plugin/hostile"
cd "$work" || exit 2
compile() { gcc -std=c11 -D_GNU_SOURCE -O1 -w -fPIC -shared -I"$KILN_ROOT/include" "$@" -lm || exit 2; }
yes() { echo "ok $1"; }
no() { echo "FAIL $1"; status=1; }

compile "$hostile/bad_sampling.c" -o bad_sampling.so
"$kiln" check-plugin bad_sampling.so >report.txt 2>&1
[ $? -eq 1 ] && yes status || no status

ways=( # KIND NAME|what is said of it
    'sampler never_steps|steps .*never called step()' 'sampler deaf_to_cancel|cancel .*returned KILN_OK when step() had said KILN_CANCELLED after 1 steps'
    'sampler deaf_to_denoise|failure .*returned KILN_OK when call 1 of denoise() had failed' 'sampler deaf_to_noise|failure .*call 1 of noise() had failed'
    'sampler deaf_to_memory|failure .*which had no memory, had failed' 'sampler steps_back|steps .*a lower number than before'
    'sampler steps_beyond|steps .*a number that is not below n' 'sampler steps_late|steps .*told step() 10 last, and not 11'
    'sampler keeps_history|same .*other numbers the second time' 'sampler draws_unsaid|flags .*not said to be KILN_SAMPLER_STOCHASTIC'
    'sampler says_unconditional|flags .*never calls unconditional()' 'sampler calls_unconditional|flags .*not said to be KILN_SAMPLER_UNCONDITIONAL'
    'sampler resizes_unsaid|flags .*not said to be KILN_SAMPLER_RESIZES' 'sampler writes_levels|read-only .*changed the levels'
    'sampler one_order_less|order .*its row says order 2' 'sampler too_much_noise|law .*data with noise on it' 'sampler no_noise|law .*data with noise on it'
    'sampler not_finite|finite .*NaN or infinity at the defaults' 'sampler never_asks|steps .*never asked the model'
    'sampler asks_twice|evaluations .*2.00 times a step; its row says 1.00' 'sampler static_counter|same .*other numbers the second time'
    'sampler unwritten|same .*reads what it never wrote' 'sampler wrong_code|failure .*returned KILN_ERR_BUG when call 1 of slot()'
    'sampler silent|message .*at the high ends' 'sampler no_terms|call .*a sum of none' 'sampler null_latent|call .*no latent'
    'sampler first_is_ignored|resume .*other numbers when it went on from step 1' 'sampler acts_when_done|steps .*a number that is not below n'
    'sampler exits|exit .*status 0' 'sampler aborts|crash .*SIGABRT' 'sampler hangs_up|cancel .*returned KILN_OK when step()'
    'sampler no_rows|options .*its row has no params_size, and so s->options is NULL' 'sampler beyond_options|options .*beyond the 16 bytes of its options'
    'sampler static_across|resume .*another process went on from step 1, and the same ones in this one' 'sampler order_0|order-row .*its row says order 0, which is'
    'sampler order_too_low|order-row .*2^[12]\.[0-9]* at least, and its row says order 1;' 'sampler asks_less|evaluations .*1.00 times a step; its row says 1.50'
    'sampler rows_unread|unread-rows .*so that none of them is read' 'sampler says_stochastic|asks-noise .*asks for no noise, neither at its defaults'
    'sampler option_divides|finite .*at the low ends' 'sampler one_step_fails|message .*with one step'
    'schedule rises|descends .*level 2' 'schedule negative|finite .*negative' 'schedule nan|finite .*not a number' 'schedule too_high|ends .*begins at'
    'schedule leaves_noise|ends .*which leaves noise' 'schedule overruns|memory .*behind its room' 'schedule deaf_to_room|room .*has to say that there are more'
    'schedule changes|same .*other levels' 'schedule equal|descends .*level 2' 'schedule huge|memory .*made 1000000 levels' 'schedule crashes|crash .*SIGABRT'
)
section() { awk -v head="$1 bad_$2" '/^(sampler|schedule|node|plugin) / { on = $0 == head } on' report.txt; }
for row in "${ways[@]}"; do
    read -r kind name <<<"${row%%|*}"
    case $name:$KILN_BUILD in unwritten:*-address) echo "skip unwritten: the sanitizer's own memory has the same bytes each time"; continue ;; esac
    if section "$kind" "$name" | grep -q "FAIL ${row#*|}"; then yes "$name"; else section "$kind" "$name"; no "$name"; fi
done
[ -n "$(section sampler good)" ] && ! section sampler good | grep FAIL | grep -qv law-of-flows && yes good_sampler || no good_sampler
[ -n "$(section schedule even)" ] && ! section schedule even | grep -q FAIL && yes good_schedule || no good_schedule
grep -q 'kiln itself' report.txt && no blames_itself || yes blames_nobody_else
grep -q 'badge: org.example.bad-sampling 1.0.0, kiln 1.[0-9]*: contract no, behaviour no, quality no$' report.txt && yes badge || no badge

compile -DFEW "$hostile/bad_sampling.c" -o few.so
"$kiln" check-plugin few.so --json >report.json 2>errors.txt
python3 - <<'P' && yes json || no json
import json
events = [json.loads(line) for line in open("report.json")]
found = [e for e in events if e["event"] == "finding"]
levels = {e["level"] for e in found}
last = events[-1]
assert last["event"] == "checked" and last["plugin"] == "org.example.bad-sampling" and last["tried"] == 3, last
assert levels == {"contract", "behaviour", "quality"}, levels
assert all(last[level] > 0 for level in levels)
assert any(e["kind"] == "sampler" and e["name"] == "bad_too_much_noise" and e["test"] == "law" for e in found)
P
[ -s errors.txt ] && { cat errors.txt; no json_alone; } || yes json_alone

# The good one alone has no finding that counts.
compile -DONLY_GOOD "$hostile/bad_sampling.c" -o good_sampling.so
"$kiln" check-plugin good_sampling.so >report.txt 2>&1
[ $? -eq 0 ] && grep -q 'contract yes, behaviour yes' report.txt && yes good_plugin || { cat report.txt; no good_plugin; }
# It says what was tried.
for said in 'evaluations *1.00 a step (its row says 1.00)' 'order *[01]\.[0-9]* (its row says 1)' 'resume *the same numbers from each of 11 steps on, and in another process' 'law *of data with noise on it: mean square 1'; do
    grep -q "  ok   $said" report.txt && yes "says_${said%% *}" || { cat report.txt; no "says_${said%% *}"; }
done
"$kiln" check-plugin good_sampling.so --json | grep '"event": "holds", "kind": "sampler"' | grep -q '"test": "order"' && yes says_it_in_json || no says_it_in_json
# Half of what options take.
refused() { # NAME SED WORDS
    sed "$2" "$KILN_ROOT/tests/plugin/hostile/bad_sampling.c" >half.c && compile -DONLY_GOOD half.c -o half.so
    "$kiln" check-plugin half.so >report.txt 2>&1; [ $? -eq 1 ] && grep -q "FAIL table .*$3" report.txt && yes "$1" || { cat report.txt; no "$1"; }
}
refused rows_without_their_number 's/KILN_ARRAY(param, option), /.param = option, /' 'params_size is 16, and n_param 0: .*though there is an array of rows'
refused a_struct_without_rows 's/KILN_ARRAY(param, option), //' 'params_size is 16, and n_param 0: a struct that no row fills;'
refused rows_without_a_struct 's/\.params_size = sizeof(options), //' '2 parameters and params_size 0'
# Of order 2, said to be 4: its order is still growing a little at the most steps.
sed 's/\.order = 2/.order = 4/; s/org.example.midpoint/org.example.boasts/' "$KILN_ROOT/plugins/examples/midpoint.c" >boasts.c && compile boasts.c -o boasts.so
"$kiln" check-plugin boasts.so >report.txt 2>&1
[ $? -eq 1 ] && grep -q 'FAIL order .*its row says order 4' report.txt && yes two_orders_more || { cat report.txt; no two_orders_more; }
exit $status
