/**
 * The form to sign in, which stands in the place of the page until its visitor may read, and the visitor's name and
 * way out in the top bar.
 */
import { Refused, signIn, signOut } from '../api';
import { doorOf, nameOf, type Visitor } from '../model/visitor';
import { byId, el, setAttribute, setText } from './dom';

/** Where a page leaves the reason of its end for the one that is loaded in its place. */
const REASON = 'tallycast-closed';

/** Keeps why a page was closed for the form that the next one shows. */
export function keepReason(text: string): void {
  sessionStorage.setItem(REASON, text);
}

function takeReason(): string {
  const text = sessionStorage.getItem(REASON) ?? '';
  sessionStorage.removeItem(REASON);
  return text;
}

/** Signing in and out. Both load the page anew: nothing of another visitor stays on it. */
export class SignIn {
  readonly #panel = byId('sign-in', HTMLElement);
  readonly #form = byId('sign-in-form', HTMLFormElement);
  readonly #user = byId('sign-in-user', HTMLInputElement);
  readonly #password = byId('sign-in-password', HTMLInputElement);
  readonly #submit = byId('sign-in-submit', HTMLButtonElement);
  readonly #note = byId('sign-in-note', HTMLParagraphElement);
  readonly #cancel = byId('sign-in-cancel', HTMLButtonElement);
  readonly #visitor = byId('visitor', HTMLButtonElement);
  readonly #insecure = byId('insecure', HTMLElement);
  #signedIn = false;

  constructor() {
    setText(this.#note, takeReason());
    this.#form.addEventListener('submit', (event) => {
      event.preventDefault();
      void this.#send();
    });
    this.#cancel.addEventListener('click', () => this.#open(false));
    this.#visitor.addEventListener('click', () => {
      if (this.#signedIn) void signOut().finally(() => location.reload());
      else this.#open(true);
    });
  }

  /** Shows who the visitor is, and the form if there is nothing to see without it. */
  show(visitor: Visitor): void {
    this.#signedIn = visitor.signedIn;
    const name = nameOf(visitor);
    this.#visitor.hidden = !visitor.signedIn && !visitor.canSignIn;
    this.#visitor.replaceChildren(...(visitor.signedIn ? [el('span', { class: 'visitor-name', text: `${name} · ` }), 'Sign out'] : ['Sign in']));
    setAttribute(this.#visitor, 'title', visitor.signedIn ? `Signed in as ${visitor.principal}` : 'Sign in as a user of this monitor');
    this.#insecure.hidden = !visitor.insecure;
    const door = doorOf(visitor);
    this.#cancel.hidden = door.kind !== 'open';
    if (door.kind === 'sign-in') this.#open(true);
    else if (visitor.signedIn) this.#open(false);
  }

  #open(on: boolean): void {
    if (this.#panel.hidden === !on) return;
    this.#panel.hidden = !on;
    document.documentElement.toggleAttribute('data-signing-in', on);
    byId('page', HTMLElement).inert = on;
    if (on) this.#user.focus();
  }

  async #send(): Promise<void> {
    setText(this.#note, '');
    this.#submit.disabled = true;
    try {
      await signIn(this.#user.value.trim(), this.#password.value);
      location.reload();
    } catch (error) {
      setText(this.#note, error instanceof Refused ? error.text : 'The monitor does not answer');
      this.#password.value = '';
      this.#password.focus();
    } finally {
      this.#submit.disabled = false;
    }
  }
}
