/* machine.h - what a run computes with: the device and its memory, the store of results, and the report to the user. */
#ifndef KILN_RUN_MACHINE_H
#define KILN_RUN_MACHINE_H

#include "backend/runtime.h"
#include "run/reading.h"
#include "run/report.h"
#include "run/result_cache.h"
#include "workflow/key.h"

typedef struct {
    const catalog *catalog;
    const file_roots *roots; /* of the job */
    runtime *runtime;
    result_cache *result_cache; /* NULL: nothing is kept */
    report *report;
    int tight; /* a budget not far above the least: nodes run one after the other, as they were estimated */
} machine;

/* The machine stays where it is until machine_close. On failure what there is has to be closed too. */
kiln_status machine_open(machine *m, const job *j, const job_setting *s, error *e);
void machine_close(machine *m); /* commits results; the report is closed before, with its last words */
key_setting machine_keys(machine *m);
residency *machine_residency(const machine *m);
budget *machine_budget(const machine *m);
/* 1: a device beside the host, with memory and a link of its own. */
int machine_asynchronous(const machine *m);
/* What went over that link so far; all 0 where there is none. */
device_traffic machine_traffic(const machine *m);

#endif
