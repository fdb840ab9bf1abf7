/* ip_adapter_family.h - files of IP-Adapters, a kind of this plugin's own: their value is an IPADAPTER, a kiln_network
 * from a picture's features to image tokens whose weights also hold each cross-attention's keys and values.
 */
#ifndef KILN_VISION_IP_ADAPTER_FAMILY_H
#define KILN_VISION_IP_ADAPTER_FAMILY_H

#include "ip_adapter.h"
#include "kiln/model.h"

#define IP_ADAPTER_KIND "ip_adapter"
#define IP_ADAPTER_TYPE "IPADAPTER"

extern const kiln_model_family ip_adapter_family;

/* Of an IPADAPTER of this family. */
const ip_adapter_config *ip_adapter_config_of(const kiln_net *net);

#endif
