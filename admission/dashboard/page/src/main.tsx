import { render } from 'preact';
import { App } from './app';
import { start } from './live';
import './style.css';

start();
render(<App />, document.getElementById('page')!);
