// Platforms whose addresses have a form of their own, as they show it to their users. What the platform shows counts.

export const PRESETS = [
  {
    id: "youtube",
    name: "YouTube",
    url: "rtmps://a.rtmps.youtube.com/live2",
    backup: "rtmps://b.rtmps.youtube.com/live2?backup=1",
    advice: "YouTube Studio, Go live, Stream: copy the stream key. The address with rtmps is encrypted.",
    key: "Such as abcd-efgh-ijkl-mnop-qrst.",
  },
  {
    id: "twitch",
    name: "Twitch",
    url: "rtmp://live.twitch.tv/app",
    advice: "Creator dashboard, Settings, Stream: copy the primary stream key. Twitch gives no reason when a key is wrong, it only closes.",
    key: "Begins with live_. With ?bandwidthtest=true after it, nobody sees the stream.",
  },
  {
    id: "facebook",
    name: "Facebook",
    url: "rtmps://live-api-s.facebook.com:443/rtmp",
    advice: "Live Producer, Streaming software: copy the stream key. It takes H.264 and AAC, with a keyframe every 2 s.",
    key: "Begins with FB-. Unless it is a lasting one, it is good for 24 hours.",
  },
  {
    id: "kick",
    name: "Kick",
    url: "rtmps://YOUR-SERVER.global-contribute.live-video.net:443/app",
    advice: "Creator dashboard, Settings, Stream: put your own server name in place of YOUR-SERVER. /app stays, also where Kick leaves it out.",
    key: "Begins with sk_.",
  },
  {
    id: "relay",
    name: "Another RTMP server",
    url: "rtmp://server/{app}",
    advice: "{app} is replaced with the application of the stream, such as live.",
    key: "Without a key, the stream is published under its own name.",
  },
];

/** What is left in the address of a preset for its user to fill in. */
export const PLACEHOLDER = "YOUR-SERVER";

export const presetOf = (id) => PRESETS.find((preset) => preset.id === id) ?? null;

/** Whether an address is still one that a preset wrote. */
export const isPresetUrl = (url) => PRESETS.some((preset) => preset.url === url);
