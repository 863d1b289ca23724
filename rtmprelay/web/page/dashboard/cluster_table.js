// The nodes of the cluster, as a table.
import { setHidden, setText } from "./dom.js";
import * as format from "./format.js";

const COLUMNS = ["name", "state", "streams", "players", "connections"];

export class ClusterTable {
  constructor(section) {
    this.section = section;
    this.note = section.querySelector("p");
    this.body = section.querySelector("tbody");
  }

  update(cluster) {
    const nodes = Object.entries(cluster?.nodes ?? {});
    setHidden(this.section, !cluster?.node);
    if (!cluster?.node) return;
    const { directory } = cluster;
    const age = directory.knowledge_age === null ? "never read" : `read ${format.span(directory.knowledge_age)} ago`;
    const trouble = directory.last_error ? `: ${directory.last_error}` : "";
    setText(this.note, `This node is ${cluster.node}. The directory ${directory.address} is ${directory.state}, ${age}${trouble}.`);
    while (this.body.rows.length > nodes.length) this.body.lastElementChild.remove();
    while (this.body.rows.length < nodes.length) {
      const row = this.body.insertRow();
      for (const _ of COLUMNS) row.insertCell();
    }
    nodes.forEach(([name, node], index) => {
      const values = { ...node, name, state: node.draining ? "Draining" : "Ready" };
      COLUMNS.forEach((column, position) => {
        const value = values[column];
        setText(this.body.rows[index].cells[position], typeof value === "number" ? format.count(value) : value);
      });
    });
  }
}
