// Who watches a stream: read while the panel is open, because there may be thousands.
import { fromTemplate, setHidden, setOptional, setText, setTitle } from "./dom.js";
import * as format from "./format.js";

const EVERY_MS = 3000;

const PROTOCOLS = { rtmp: "RTMP", flv: "HTTP-FLV", mp4: "MP4", hls: "HLS" };

export class PlayersPanel {
  /** @param box the panel, with a list and a note in it */
  constructor(box, key, page) {
    this.box = box;
    this.key = key;
    this.page = page;
    this.list = box.querySelector("ul");
    this.note = box.querySelector("[data-part=playersMore]");
    this.timer = null;
    this.rows = new Map();
  }

  get isOpen() {
    return !this.box.hidden;
  }

  toggle() {
    if (this.isOpen) this.close();
    else this.open();
  }

  open() {
    setHidden(this.box, false);
    this.#refresh();
    this.timer = setInterval(() => document.hidden || this.#refresh(), EVERY_MS);
  }

  close() {
    clearInterval(this.timer);
    setHidden(this.box, true);
  }

  async #refresh() {
    try {
      this.#show(await this.page.control.playersOf(this.key));
    } catch (error) {
      setOptional(this.note, error.message);
    }
  }

  #show({ players, total }) {
    const shown = new Set(players.map(({ connection }) => connection));
    for (const [connection, row] of this.rows) {
      if (shown.has(connection)) continue;
      row.root.remove();
      this.rows.delete(connection);
    }
    for (const player of players) this.#row(player);
    const more = total - players.length;
    setOptional(this.note, total === 0 ? "Nobody watches now." : more > 0 ? `And ${format.count(more)} more.` : null);
  }

  #row(player) {
    const { connection } = player;
    if (!this.rows.has(connection)) {
      const made = fromTemplate("player-row");
      made.parts.end.addEventListener("click", () => this.#end(connection, made.parts.end));
      this.rows.set(connection, made);
      this.list.append(made.root);
    }
    const { parts } = this.rows.get(connection);
    setText(parts.address, player.address ?? "Unknown");
    const facts = [PROTOCOLS[player.protocol] ?? player.protocol, format.duration(player.duration), format.bytes(player.bytes_sent)];
    if (player.stalls) facts.push(format.counted(player.stalls, "stall"));
    setText(parts.facts, facts.join(" · "));
    setOptional(parts.dropped, player.messages_dropped ? `Missed: ${format.dropWords(player.dropped_by_reason)}` : null);
    setTitle(parts.end, `Disconnect ${player.address ?? connection}`);
    // A viewer of HLS asks again and again: there is no connection to end.
    setHidden(parts.end, !this.page.control.unlocked || player.protocol === "hls");
  }

  async #end(connection, button) {
    button.disabled = true;
    try {
      await this.page.control.endPlay(connection);
      await this.#refresh();
    } catch (error) {
      setOptional(this.note, error.message);
    } finally {
      button.disabled = false;
    }
  }
}
