// popup returns an attachment for an element with a button and what the button opens. close is
// called when something else is used, and for Escape, after which the button has the focus.
export function popup(close: () => void) {
  return (node: HTMLElement) => {
    const elsewhere = (e: Event) => {
      if (!node.contains(e.target as Node)) close();
    };
    const escape = (e: KeyboardEvent) => {
      const button = node.querySelector<HTMLElement>('[aria-expanded="true"]');
      if (e.key !== 'Escape' || !button) return;
      e.stopPropagation();
      close();
      button.focus();
    };
    document.addEventListener('pointerdown', elsewhere);
    document.addEventListener('focusin', elsewhere);
    node.addEventListener('keydown', escape);
    return () => {
      document.removeEventListener('pointerdown', elsewhere);
      document.removeEventListener('focusin', elsewhere);
      node.removeEventListener('keydown', escape);
    };
  };
}
