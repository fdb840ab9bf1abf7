/* ways.c - kiln/engine.h in the ways a program may use it: sizes, two at once, cancelling, sweeps, running twice. */
#include <kiln/engine.h>

#include <stdio.h>
#include <string.h>

static void verdict(const char *name, int ok) { printf("%s %s\n", ok ? "ok" : "FAIL", name); }

static int events;
static void count_events(void *arg, const char *json)
{
    (void)arg;
    events += json[0] == '{' && json[strlen(json) - 1] == '}' && !strchr(json, '\n');
}

static void cancel_at_once(void *arg, const char *json)
{
    (void)arg, (void)json;
    kiln_cancel();
}

static kiln_workflow_options source(void)
{
    return (kiln_workflow_options){.size = sizeof(kiln_workflow_options), .path = "txt2img.yaml"};
}

static kiln_run_options how(const char *out)
{
    return (kiln_run_options){.size = sizeof(kiln_run_options), .out = out, .no_cache = 1};
}

static void test_sizes(void)
{
    kiln_message why = {.size = sizeof why};
    kiln_workflow_options from = source();
    from.size = 0;
    verdict("a_struct_without_a_size_is_refused", !kiln_workflow_open(&from, &why) && why.status == KILN_ERR_BUG);
    static const kiln_setting one = {"seed", "1"};
    from = source();
    from.set = &one, from.n_set = 1;
    verdict("settings_without_a_stride_are_refused",
            !kiln_workflow_open(&from, &why) && why.status == KILN_ERR_BUG && strstr(why.text, "set_stride is 0"));
    from = source();
    from.size = offsetof(kiln_workflow_options, set); /* an older program's: what follows is not looked at */
    from.n_set = 1000;
    kiln_workflow *w = kiln_workflow_open(&from, &why);
    verdict("an_older_program_is_understood", w != NULL && kiln_workflow_fault_count(w) == 0);
    kiln_workflow_close(w);
    kiln_workflow_close(NULL);
}

static void test_one_at_a_time(void)
{
    kiln_message why = {.size = sizeof why};
    kiln_workflow_options from = source();
    kiln_workflow *w = kiln_workflow_open(&from, &why), *second = kiln_workflow_open(&from, &why);
    verdict("a_second_workflow_is_refused", w && !second && strstr(why.text, "one workflow at a time"));
    kiln_workflow_close(w);
    w = kiln_workflow_open(&from, &why);
    verdict("after_closing_another_opens", w != NULL);
    kiln_workflow_close(w);
}

static void test_running(void)
{
    kiln_message why = {.size = sizeof why};
    kiln_run_summary done = {.size = sizeof done};
    kiln_workflow_options from = source();
    kiln_workflow *w = kiln_workflow_open(&from, &why);
    kiln_run_options run = how("pictures");
    verdict("a_workflow_opens", w != NULL);
    if (!w) return;
    run.on_event = count_events;
    kiln_status status = kiln_workflow_run(w, &run, &done, &why);
    verdict("it_runs", status == KILN_OK && done.outputs == 1 && done.ran == done.nodes);
    if (status != KILN_OK) printf("  %s\n", why.text);
    verdict("events_are_whole_objects", events > 5);
    run.on_event = cancel_at_once;
    verdict("cancelling_is_its_own_status",
            kiln_workflow_run(w, &run, &done, &why) == KILN_CANCELLED && done.cancelled == 1);
    run.on_event = NULL;
    verdict("it_runs_again_after_that", kiln_workflow_run(w, &run, &done, &why) == KILN_OK && done.ran == done.nodes);
    run.device = "abacus";
    verdict("a_device_there_is_not",
            kiln_workflow_run(w, &run, &done, &why) == KILN_ERR_INVALID && strstr(why.text, "abacus"));
    kiln_workflow_close(w);
}

static void test_sweep(void)
{
    kiln_message why = {.size = sizeof why};
    kiln_run_summary done = {.size = sizeof done};
    kiln_workflow_options from = source();
    from.over = (const char *const[]){"seed=1..3"}, from.n_over = 1;
    kiln_workflow *w = kiln_workflow_open(&from, &why);
    kiln_run_options run = how("sweep");
    run.sheet = "sheet.png";
    verdict("a_sweep_opens", w != NULL);
    if (!w) return;
    verdict("a_sweep_has_rows", kiln_workflow_row_count(w) == 3 && kiln_workflow_fault_count(w) == 0);
    verdict("a_sweep_runs",
            kiln_workflow_run(w, &run, &done, &why) == KILN_OK && done.rows == 3 && done.rows_done == 3);
    verdict("what_is_done_is_not_done_again",
            kiln_workflow_run(w, &run, &done, &why) == KILN_OK && done.rows_before == 3 && done.rows_done == 0);
    kiln_workflow_close(w);
    from.over = (const char *const[]){"sampler.steps=2,minus"};
    w = kiln_workflow_open(&from, &why);
    verdict("a_rows_fault_is_a_fault", w && kiln_workflow_fault_count(w) == 1 &&
                                           strstr(kiln_workflow_fault(w, 0), "minus") && !kiln_workflow_fault(w, 1));
    kiln_workflow_close(w);
}

int main(void)
{
    verdict("it_has_a_version", strchr(kiln_version(), '.') != NULL);
    test_sizes();
    test_one_at_a_time();
    test_running();
    test_sweep();
    verdict("the_last_way", 1);
    return 0;
}
