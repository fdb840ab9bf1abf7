/* vision_nodes.h - the rows of the vision plugin. */
#ifndef KILN_NODES_VISION_NODES_H
#define KILN_NODES_VISION_NODES_H

#include "kiln/plugin.h"

extern const kiln_node node_clip_vision_loader, node_clip_vision_encode;        /* clip_vision_nodes.c     */
extern const kiln_node node_unclip_checkpoint_loader, node_unclip_conditioning; /* unclip_nodes.c          */
extern const kiln_node node_ip_adapter_model_loader, node_ip_adapter, node_ip_adapter_advanced; /* ip_adapter_nodes.c */
extern const kiln_node node_style_model_loader, node_style_model_apply;                         /* style_nodes.c     */
extern const kiln_node node_reference_only_simple;                                              /* reference_nodes.c */

#endif
