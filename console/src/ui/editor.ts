import { defaultKeymap, history, historyKeymap } from '@codemirror/commands';
import { json } from '@codemirror/lang-json';
import { sql } from '@codemirror/lang-sql';
import { bracketMatching, HighlightStyle, syntaxHighlighting } from '@codemirror/language';
import { EditorState } from '@codemirror/state';
import { drawSelection, EditorView, keymap, lineNumbers } from '@codemirror/view';
import { tags } from '@lezer/highlight';

// The colors are the tokens of the style sheet, which a shadow root inherits.
const colors = HighlightStyle.define([
  { tag: [tags.keyword, tags.operatorKeyword], color: 'var(--accent-strong)', fontWeight: '600' },
  { tag: [tags.string, tags.special(tags.string)], color: 'var(--good)' },
  { tag: [tags.number, tags.bool, tags.null], color: 'var(--warn)' },
  { tag: [tags.propertyName, tags.typeName], color: 'var(--accent-strong)' },
  { tag: [tags.comment], color: 'var(--text-3)', fontStyle: 'italic' },
]);

interface Settings {
  value: string;
  language: 'json' | 'sql';
  label: string;
  minHeight: number;
  run: () => void;
  change: (text: string) => void;
}

export interface TextEditor {
  // set replaces the text, unless it is the same.
  set: (text: string) => void;
  destroy: () => void;
}

// createEditor puts an editor into a shadow root.
export function createEditor(root: ShadowRoot, s: Settings): TextEditor {
  const theme = EditorView.theme({
    '&': { fontSize: '12.5px', backgroundColor: 'var(--surface)', color: 'var(--text)' },
    '&.cm-focused': {
      outline: '2px solid var(--accent)',
      outlineOffset: '-2px',
      borderRadius: '7px',
    },
    '.cm-content': {
      fontFamily: 'var(--mono)',
      minHeight: s.minHeight + 'px',
      padding: '8px 0',
      caretColor: 'var(--text)',
    },
    '.cm-scroller': { fontFamily: 'var(--mono)', lineHeight: '1.6', maxHeight: '420px' },
    '.cm-gutters': { backgroundColor: 'var(--sunken)', color: 'var(--text-3)', border: 'none' },
    '.cm-selectionBackground, &.cm-focused .cm-selectionBackground': {
      backgroundColor: 'var(--accent-soft) !important',
    },
    '.cm-cursor': { borderLeftColor: 'var(--text)' },
  });
  const view = new EditorView({
    parent: root,
    root,
    state: EditorState.create({
      doc: s.value,
      extensions: [
        keymap.of(['Ctrl-Enter', 'Cmd-Enter'].map((key) => ({ key, run: () => (s.run(), true) }))),
        lineNumbers(),
        history(),
        drawSelection(),
        bracketMatching(),
        keymap.of([...defaultKeymap, ...historyKeymap]),
        s.language === 'json' ? json() : sql(),
        syntaxHighlighting(colors),
        theme,
        EditorView.lineWrapping,
        EditorView.contentAttributes.of({ 'aria-label': s.label }),
        EditorView.updateListener.of((u) => u.docChanged && s.change(u.state.doc.toString())),
      ],
    }),
  });
  return {
    set: (text) => {
      if (text !== view.state.doc.toString())
        view.dispatch({ changes: { from: 0, to: view.state.doc.length, insert: text } });
    },
    destroy: () => view.destroy(),
  };
}
