// rowKeys lets the arrow keys, Home and End move between the links of the rows of a table or list,
// also with j and k. Use it as {@attach rowKeys}; the link of each row has data-row.
export function rowKeys(node: HTMLElement) {
  const move = (e: KeyboardEvent) => {
    if (e.metaKey || e.ctrlKey || e.altKey) return;
    const rows = [...node.querySelectorAll<HTMLElement>('[data-row]')];
    const at = rows.indexOf(document.activeElement as HTMLElement);
    if (at < 0) return;
    const to = {
      ArrowDown: at + 1,
      j: at + 1,
      ArrowUp: at - 1,
      k: at - 1,
      Home: 0,
      End: rows.length - 1,
    }[e.key];
    const row = to === undefined ? undefined : rows[to];
    if (!row) return;
    e.preventDefault();
    row.focus();
  };
  node.addEventListener('keydown', move);
  return () => node.removeEventListener('keydown', move);
}
