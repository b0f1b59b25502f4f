import { mount } from 'svelte';
import './styles.css';
import App from './App.svelte';

// The window in which a provider has signed the user in again has done its work.
if (new URLSearchParams(location.search).has('close')) window.close();

mount(App, { target: document.getElementById('app')! });
