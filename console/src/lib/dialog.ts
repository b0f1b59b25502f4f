// Dialogs and what has the focus when they are gone.

// outside is what had the focus last outside of all dialogs.
let outside: HTMLElement | undefined;
document.addEventListener('focusin', (e) => {
  if (e.target instanceof HTMLElement && !e.target.closest('dialog')) outside = e.target;
});

// modal shows a dialog as long as it is there; close is called when the user closes it with Escape.
// Then what had the focus before gets it again, or the page, if that is gone.
export function modal(close: () => void) {
  return (node: HTMLDialogElement) => {
    const before = document.activeElement as HTMLElement | null;
    // The event close comes a moment after the dialog is gone, cancel before. A browser that is asked
    // twice closes the dialog without cancel.
    node.addEventListener('cancel', (e) => {
      if (e.target !== node) return; // a file was not chosen
      e.preventDefault();
      close();
    });
    node.addEventListener('close', () => node.isConnected && close());
    node.showModal();
    return () => {
      for (const element of [before, outside, document.getElementById('content')]) {
        element?.focus({ preventScroll: true });
        if (element && element !== document.body && element === document.activeElement) return;
      }
    };
  };
}
