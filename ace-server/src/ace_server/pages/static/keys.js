// Keys of a page: an element with data-key="a" is clicked when the key a is pressed outside of a text field.
document.addEventListener("keydown", event => {
  if (event.ctrlKey || event.metaKey || event.altKey) return;
  if (event.target.closest("input, textarea, select")) {
    if (event.key === "Escape") event.target.blur();
    return;
  }
  const element = [...document.querySelectorAll("[data-key]")].find(marked => marked.dataset.key === event.key);
  if (!element) return;
  event.preventDefault();
  element.click();
  if (element.tagName === "SUMMARY" && element.parentElement.open) element.parentElement.querySelector("textarea").focus();
});
