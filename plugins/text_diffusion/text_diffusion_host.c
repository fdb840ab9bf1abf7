/* text_diffusion_host.c - what open() was given. */
#include "text_diffusion.h"

const kiln_host *td_host;
const kiln_ops *td_ops;
