/* key.h - what identifies a node's result.
 *
 * A key digests the node type, its declared revision and its plugin's content; every parameter in canonical form;
 * the keys (and output numbers) of what is wired in; the content of every file it reads; device class and precision
 * for nodes that compute on the device; the content of the plugin that registered a sampler or schedule it names, and,
 * where a MODEL, CLIP or VAE comes out, of those that registered model families. Node names, order, threads and output
 * folder are not part of it; but the name is for a node that is not PURE, since two of those give different results and
 * whoever uses one must not pass for a user of the other. Such a node, and whatever depends on it, is not
 * `cacheable`: its key is good for one run.
 *
 * A node that a list comes to (graph_node.mapped) is called once for each item, and each call has a key of its own,
 * known when the item is: its own part (graph_node.self) and the identity of what this call is given (run/node_args.h).
 * A lazy input that the parameters do not want has no wires here, so it is in no key.
 */
#ifndef KILN_WORKFLOW_KEY_H
#define KILN_WORKFLOW_KEY_H

#include "workflow/check.h"

typedef struct {
    const char *device;    /* "cpu"                                                                              */
    const char *precision; /* "bf16"                                                                             */
    const char *numerics;  /* what else decides the bits on that device (backend.numerics); may be NULL */
    const char *engine;    /* the engine's version; may be NULL                                */
    /* Content of the plugin that registered `name` in `from` ("sampler", "schedule"); 0: not known. May be NULL. */
    int (*origin)(void *arg, const char *from, const char *name, digest *out);
    /* Calls each(to, path) for the files that are read with `path`, where it is one that names others (an index of
     * shards). May be NULL. */
    kiln_status (*beside)(void *arg, const char *path, kiln_status (*each)(void *to, const char *path, error *e),
                          void *to, error *e);
    void *arg;
    /* 1: this file (or folder) is not worth reading whole, since its header already says that no node can use it, or it
     * is larger than anybody waits for. Then its name stands for it, and the node is not cacheable. May be NULL. */
    int (*unreadable)(void *arg, const char *path);
    digest families; /* content of the plugins whose model families a loader chooses among */
} key_setting;

/* Fills key, cacheable and seen of every needed node, in order. Reads each file's content once. */
kiln_status workflow_keys(workflow *w, const key_setting *on, error *e);

#endif
