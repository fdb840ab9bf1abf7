/* user_plugins.h - the user's own folder of plugins, and which plugins are kept from being loaded.
 *
 * The folder is $XDG_DATA_HOME/kiln/plugins, else ~/.local/share/kiln/plugins. `kiln plugin install` gives each plugin
 * a folder of its id there. The file `disabled` in it has a line for each plugin that is not to be loaded: its id, a
 * tab, its path. Neither that file nor that path is ever loaded, wherever the id turns up on the search path.
 */
#ifndef KILN_PLUGIN_USER_PLUGINS_H
#define KILN_PLUGIN_USER_PLUGINS_H

#include "base/arena.h"
#include "base/status.h"

/* NULL: there is no home folder, or no memory. It need not exist. */
const char *user_plugins_folder(arena *a);

/* The id of the disabled plugin with this id or at this path (either may be NULL), in `a`; NULL: it may be loaded. */
const char *user_plugins_disabled(arena *a, const char *id, const char *path);
/* Writes or takes out its line; whole or not at all. *changed: whether it was another way before. */
kiln_status user_plugins_disable(const char *id, const char *path, int disable, int *changed, error *e);

#endif
