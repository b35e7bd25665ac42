//! The page of the cluster, as browsers get it.

mod browser;
mod rows;
mod rules;
mod site;
mod webdriver;
