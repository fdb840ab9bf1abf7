/* rrdb_names.h - the three ways in which files name the tensors of an RRDB network, seen under Real-ESRGAN's:
 *
 *     Real-ESRGAN                BSRGAN, RealSR                   ESRGAN, ESRGAN+
 *     conv_first                 conv_first                       model.0
 *     body.N.rdbM.convK          RRDB_trunk.N.RDBM.convK          model.1.sub.N.RDBM.convK.0 (and conv1x1)
 *     conv_body                  trunk_conv                       model.1.sub.BLOCKS
 *     conv_upI                   upconvI                          model.3I
 *     conv_hr, conv_last         HRconv, conv_last                model.(3 UPS + 2), model.(3 UPS + 4)
 */
#ifndef KILN_PLUGINS_UPSCALER_RRDB_NAMES_H
#define KILN_PLUGINS_UPSCALER_RRDB_NAMES_H

#include "kiln/weights.h"

enum { RRDB_BLOCKS_MAX = 200, RRDB_UPS_MAX = 5 };

typedef enum { RRDB_NEW = 1, RRDB_TRUNK, RRDB_OLD } rrdb_names;

/* Below `prefix`. NULL with a message. */
kiln_weights *rrdb_view(const kiln_weights_api *w, kiln_ctx *ctx, kiln_weights *set, const char *prefix,
                        rrdb_names names);

#endif
