// Asks for a token where the server does.

import type { JSX } from 'preact';
import { useState } from 'preact/hooks';
import { signIn } from '../api/client';

export function SignIn({ why }: { why: string }): JSX.Element {
  const [value, setValue] = useState('');
  return (
    <main>
      <form
        class="sign"
        onSubmit={(event) => {
          event.preventDefault();
          if (value.trim() !== '') signIn(value.trim());
        }}
      >
        <h1>Sign in to Stowage</h1>
        <p class="soft name" role="alert">{why}</p>
        <label for="token">Token of the cluster</label>
        <input id="token" type="password" autocomplete="off" spellcheck={false} autofocus value={value} onInput={(event) => setValue(event.currentTarget.value)} />
        <p class="faint">
          <code>kubectl create token NAME -n NAMESPACE</code> prints one for a ServiceAccount. The page shows what its owner may read; it
          keeps the token until this tab is closed.
        </p>
        <button type="submit" class="primary" disabled={value.trim() === ''}>Sign in</button>
      </form>
    </main>
  );
}
