/* video.h - the parts of the video plugin: a denoiser of videos, how it counts noise, an autoencoder, nodes.
 *
 * What to look at when a family of videos is brought to kiln:
 *   denoiser.c      latents of five dimensions, a timestep a frame, attention over time by reshaping
 *   flow.c          a sampling object from scratch, with a shift that knows the video's size and the steps
 *   autoencoder.c   frames in fours after the first, causal in time; an input of the decoder
 *   video_nodes.c   an empty latent, VIDEO values
 */
#ifndef EXAMPLE_VIDEO_H
#define EXAMPLE_VIDEO_H

#include "kiln/kit.h"
#include "kiln/model.h"

enum {
    CHANNELS = 6, /* of latents                       */
    WIDTH = 16,   /* of the networks                  */
    CONTEXT = 12, /* of tokens                        */
    FACTOR = 4,   /* pixels a cell                    */
    TIME = 4,     /* frames a cell after the first    */
    BLOCK = FACTOR * FACTOR * 3
};

extern const kiln_latent_format video_latent;
extern const kiln_model_sampling video_flow;
extern const kiln_model_family video_denoiser_family, video_autoencoder_family;
extern const kiln_node node_empty_video, node_make_video, node_video_frames;

#endif
