/* yaml_tree.h - a YAML (or JSON) file as a tree of scalars, sequences and maps, each with its place.
 *
 * Built from libyaml's events without recursion. Limits: 16 MiB and one document per file, 64 levels, scalars of 1 MiB,
 * 1,000 anchors, 10,000 events repeated by aliases in all, no tags, no duplicate keys. Merge keys (<<) are resolved: a
 * map's own key wins, then the first merged map's. The tree is allocated in the caller's arena.
 */
#ifndef KILN_WORKFLOW_YAML_TREE_H
#define KILN_WORKFLOW_YAML_TREE_H

#include "base/arena.h"
#include "base/status.h"

typedef struct {
    uint32_t file, line, column; /* line and column from 1; file: index in the document's list */
} place;

typedef enum { YAML_SCALAR = 1, YAML_SEQUENCE, YAML_MAP } yaml_kind;

typedef struct yaml_node {
    yaml_kind kind;
    place at;
    const char *text; /* scalar: NUL-terminated UTF-8 without NUL inside */
    size_t length;
    int quoted;              /* the scalar was in quotes or a block scalar */
    size_t n;                /* items of a sequence, pairs of a map */
    struct yaml_node **item; /* sequence items, or values of the map */
    struct yaml_node **key;  /* map: scalars                         */
} yaml_node;

/* On failure the message begins with "name:line:column: ". */
kiln_status yaml_tree_read(arena *a, const char *name, uint32_t file, const char *data, size_t size, yaml_node **out,
                           error *e);
/* The value of a key; NULL when it is missing, or `map` is not a map. */
yaml_node *yaml_get(const yaml_node *map, const char *key);

#endif
