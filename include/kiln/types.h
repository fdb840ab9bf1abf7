/* types.h - "kiln.types/1": the types of values that ports name, declared as shapes that the engine checks.
 *
 * A port names a type. What a value of that type is made of stands in a row: a tensor of certain dimensions, a map with
 * certain entries, a list. kiln has the field's own (IMAGE, LATENT, VIDEO, ...: `kiln types`), and a plugin adds rows
 * for types of its own. Each output of a node is held against its port's row before anybody gets it, and so is each
 * input: a value of another shape is an error that names node, port and entry.
 *
 *     static const kiln_value_entry entries[] = {
 *         {.size = sizeof *entries, .key = "points", .doc = "One a row.", .kinds = 1u << KILN_V_TENSOR,
 *          .dtypes = 1u << KILN_F32, .rank_min = 2, .rank_max = 2, .last_min = 3, .last_max = 3, .shape = "[N,3]"},
 *         {.size = sizeof *entries, .key = "picture", .doc = "...", .type = "IMAGE", .flags = KILN_ENTRY_OPTIONAL},
 *     };
 *     static const kiln_value_type cloud = {.size = sizeof cloud, .kind = KILN_V_MAP, .name = "POINT_CLOUD",
 *                                           .doc = "Points in space.", KILN_ARRAY(entry, entries)};
 *     types->register_type(&cloud);                       // in open()
 *
 * A map may have entries that its row does not name: they are carried along and not looked at. A type without a row is
 * not looked at either.
 */
#ifndef KILN_TYPES_H
#define KILN_TYPES_H

#include "value.h"

#ifdef __cplusplus
extern "C" {
#endif

#define KILN_TYPES_ABILITY "kiln.types/1"

enum { KILN_ENTRY_OPTIONAL = 1 };

/* What an entry of a map is. Dimensions are in memory order. */
typedef struct {
    uint32_t size, flags; /* KILN_ENTRY_...                                                          */
    const char *key, *doc;
    const char *type;            /* it is a value of that type, and the rest says nothing; NULL: as the rest says */
    uint32_t kinds;              /* bits (1 << KILN_V_TENSOR) ...; 0: any                            */
    uint32_t dtypes;             /* of a tensor: bits (1 << KILN_F32) ...; 0: any                    */
    uint32_t rank_min, rank_max; /* of a tensor: 0,0 = any                                           */
    int64_t last_min, last_max;  /* its last dimension: 0,0 = any                                    */
    uint32_t item_kinds;         /* of a list's items, as `kinds`                                    */
    const char *shape;           /* for people: "[N,H,W,C]"                                          */
} kiln_value_entry;

/* A type. The row is static. */
typedef struct {
    uint32_t size;
    uint32_t kind;    /* a kiln_value_kind. KILN_V_OBJECT: a handle of this type's name             */
    const char *name; /* as ports say it                                                            */
    const char *doc;  /* one line                                                                   */
    uint32_t dtypes;  /* of a tensor, as in kiln_value_entry                                        */
    uint32_t rank_min, rank_max;
    int64_t last_min, last_max;
    const char *shape;
    const char *item; /* of a list: the type of each item; NULL: each is a map of these entries, or anything when
                         there are none */
    const kiln_value_entry *entry; /* of a map, or of each map in a list                                 */
    uint32_t n_entry, entry_stride;
} kiln_value_type;

typedef struct {
    uint32_t size;
    /* [open] A name that is taken is an error that names both plugins; so is a row that says nothing sensible. */
    kiln_status (*register_type)(const kiln_value_type *);
    size_t (*type_count)(void);                       /* [any] */
    const kiln_value_type *(*type_at)(size_t i);      /* [any] kiln's own first */
    const kiln_value_type *(*find)(const char *name); /* [any] NULL: it has no row */
    /* [run] KILN_ERR_INVALID with a sentence when the value is none of that type: for values that no port brought, such
     * as what a file holds. */
    kiln_status (*check)(kiln_ctx *, const kiln_value *, const char *type);
} kiln_types_api;

#ifdef __cplusplus
}
#endif
#endif
