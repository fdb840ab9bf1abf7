/* foreign_names.h - what other programs call a sampler: AUTOMATIC1111's "DPM++ 2M Karras", diffusers'
 * EulerAncestralDiscreteScheduler. For messages: such a name is refused, and ours is said.
 */
#ifndef KILN_PARAM_FOREIGN_NAMES_H
#define KILN_PARAM_FOREIGN_NAMES_H

/* The sampler's name here, or NULL. *scheduler: the schedule that is part of the foreign name, or NULL. Case, blanks,
 * "_" and "-" do not matter. */
const char *foreign_sampler(const char *name, const char **scheduler);

#endif
