/* ancestors.h - whether the folders above a plugin's could be used to put another one in its place. */
#ifndef KILN_PLUGIN_ANCESTORS_H
#define KILN_PLUGIN_ANCESTORS_H

/* Whoever may write to a folder may rename what lies in it: each one above `folder` (absolute, without links) has to be
 * root's or the user's own, and writable by nobody else unless it is sticky, as /tmp is. NULL, or what is wrong, naming
 * the folder, in why. */
const char *ancestors_fault(const char *folder, char why[600]);

#endif
