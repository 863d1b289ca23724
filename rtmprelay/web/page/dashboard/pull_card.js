// The streams that come from elsewhere: one card for each pull.
import { fromTemplate, setChips, setData, setHidden, setIcon, setText, setTitle } from "./dom.js";
import { stateOf } from "./destination_card.js";
import * as format from "./format.js";

export class PullCard {
  constructor(name) {
    const { root, parts } = fromTemplate("pull-card");
    this.root = root;
    this.parts = parts;
    root.dataset.key = name;
  }

  close() {}

  update(pull) {
    const { parts } = this;
    const { state, words } = stateOf(pull);
    setText(parts.name, pull.name);
    setText(parts.url, pull.url);
    setTitle(parts.url, `${pull.match} from ${pull.url}`);
    setData(parts.badge, "state", state);
    setIcon(parts.badgeIcon, state);
    setText(parts.badgeWord, words);
    setText(parts.viewers, format.counted(pull.viewers, "viewer", "viewers"));
    setHidden(parts.problem, !pull.last_error);
    setData(parts.problem, "level", state === "error" ? "bad" : "quiet");
    setText(parts.problemWords, pull.last_error ? format.sentence(pull.last_error) : "");
    const streams = pull.streams ?? [];
    setHidden(parts.streams, streams.length === 0);
    setChips(
      parts.streams,
      streams.map((stream) => {
        const of = stateOf(stream);
        return [stream.stream, of.state, `${stream.stream}: ${of.words}`];
      }),
    );
  }
}
