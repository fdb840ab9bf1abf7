/* check_node.h - tries to catch a node breaking the contract. Runs in a process of its own: it may crash. */
#ifndef KILN_CLI_CHECK_NODE_H
#define KILN_CLI_CHECK_NODE_H

#include "cli/check_report.h"
#include "cli/made_values.h"
#include "plugin/catalog.h"

/* What nodes are tried with, the same for all of a plugin. */
typedef struct check_context {
    const catalog *plugins;
    const plugin_info *plugin; /* whose nodes may make inputs for others */
    const char *folder;        /* where an output node may write */
    const check_setting *setting;
    size_t n_setting;
    const char **fixture; /* files of weights for model families */
    size_t n_fixture;
    uint64_t sets;                           /* of parameters drawn at random; 0: what a moment allows */
    unsigned sets_seconds;                   /* of processor time that they may take a node */
    unsigned call_seconds;                   /* a call of a node may take       */
    double deadline;                         /* clock_seconds() when this process is ended; 0: never */
    const struct check_elsewhere *elsewhere; /* what nodes made in another process; NULL: that is not known */
    const struct check_elsewhere *changed;   /* and in one with another environment */
} check_context;

/* NULL, or why the node cannot be tried without a workflow ("its input 'model' takes a MODEL, ..."). Text in `why`. */
const char *check_node_needs(const check_context *of, const kiln_node *n, char why[256]);

/* 1, and *made: a digest of what it makes at its defaults, in the first call. 0: it fails. */
int check_node_made(const check_context *of, const node_info *n, digest *made);

check_counts check_node(const check_context *of, const node_info *n);

#endif
